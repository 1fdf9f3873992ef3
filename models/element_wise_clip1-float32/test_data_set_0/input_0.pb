BInputTensorJ0%4 Ök¾‡
£\8„Úúéı™šwI7Kñ€Õüj¸s­äï^^'°Ø^NÀQ–ì