BValuesTensorJ
*X»}aö