BOutputTensorJ0­Êsl À7Gtƒ€Ü%ı·z¾â¨‡ğ&·8j^U"+‰ƒq±QåK×0^D«
