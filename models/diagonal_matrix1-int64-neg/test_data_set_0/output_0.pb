BOutputTensorJ0V‰_—¶¸|ÎTiöóp=‘Ëét/|c¬Í-İãkŞV
ĞR¨@JŠFñÃÁä