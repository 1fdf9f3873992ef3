BOutputTensorJHСs@О‚нwl3gЇ
дажЁ•ZGFФUедажЁ•ZGFФUеСs@О‚нwl3gЇ
Сs@О‚нwl3gЇ
дажЁ•ZGFФUе