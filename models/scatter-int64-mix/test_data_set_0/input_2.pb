BUpdatesTensorJ@¨δέψY^—
ΨL5»Q„ΣlΛ»qEσΞΎ*®8bL0²™κα+Ρ’¥'C@Ετwc¥―Vζ>