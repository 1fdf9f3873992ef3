BOutputTensorJ0šÓÒ^º°­@yïaŒß„#ÃNÁ4è+%s½ıÖìô›üÆAQ8àcØKM
³