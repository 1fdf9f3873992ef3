BValuesTensorJK
ü˜O¨