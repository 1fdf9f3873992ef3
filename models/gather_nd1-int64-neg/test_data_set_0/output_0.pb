BOutputTensorJHY˜6±
nO»‹¥ílİ‹*ÎøKÈY˜6±
nO»‹¥ílİ‹*ÎøKÈlİ‹*ÎøKÈY˜6±
nO»‹¥í