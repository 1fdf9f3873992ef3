BOutputTensorJ@ü˜O¨K
K
ü˜O¨ü˜O¨ü˜O¨ü˜O¨ü˜O¨K
ü˜O¨ü˜O¨K
K
K
K
K
