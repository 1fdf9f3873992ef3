BInputTensorJ`¾=L+o·ƒÉ 1»gÑªò‚$*¤3žaBä™à•‘Ð~F÷„?»¨þvYYx®÷
òå•»k4låTÒ_ŒpÎØÃRû¬0Ì2KáEjé’¿¡‡C9Ù%ô²Ä¥,Hb