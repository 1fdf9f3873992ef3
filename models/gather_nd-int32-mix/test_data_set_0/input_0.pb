BInputTensorJСs@О‚нwl3gЇ
дажЁ•ZGFФUе