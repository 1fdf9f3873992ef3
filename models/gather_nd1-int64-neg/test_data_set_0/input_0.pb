BInputTensorJY˜6±
nO»‹¥ílİ‹*ÎøKÈ