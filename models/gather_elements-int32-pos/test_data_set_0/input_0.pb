BInputTensorJHY=µ£
·ìA»0$àlª[~$“ÎÊºY0‘9÷á
q•’„¨3CþßÑôwp¥ñNVk†¬å½J¸^õèiØ,‡Rd%