BOutputTensorJ07tV
JáüäûZ4ƒş,cz™gÅF` Ò¶š	UÂAó¬Ôk!$°/Õ€çÍèí¨