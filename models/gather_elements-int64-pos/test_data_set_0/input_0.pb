BInputTensorJHŒõÀÚ=oøxîè/ŸbgµPÜSVÖñ²ÏcIE.Ã|ÌÅ<´jv¶ë'0#§Ø©ZE‰#’ã:Éë œ8¾M
p\