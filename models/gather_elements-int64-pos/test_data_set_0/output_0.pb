BOutputTensorJ`ŒõÀÚ‰#’ãÃ|ÌŸbgµœ8¾M
p\ŒõÀÚ‰#’ãÃ|ÌŸbgµPÜSVÖñ²ÏcIE.îè/ŸbgµPÜSVÖñ²ÏcIE.îè/Å<´jPÜSM
p\