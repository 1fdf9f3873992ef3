BUpdatesTensorJ­Êsl^D«
¾â¨À7Gq±Qå"+‰ƒ