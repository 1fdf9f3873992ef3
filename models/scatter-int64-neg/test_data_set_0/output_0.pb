BOutputTensorJ`jΧ›ω:4
}μ}vΜrFΨGwΉέ.fµ©j(Zδ_ΈAΣ[οY$Qίίμ²T@ΚΊ9hςL“£ΖΚ+β±ª“+SH¶3qΙ α'ΰBW1Αh_g­¨¤