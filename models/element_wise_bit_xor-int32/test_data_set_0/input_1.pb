BBTensorJ ròÂ#ˆ)aúÛ­´«UåR‚©i¦3#¡D
w%˜»ğ\6