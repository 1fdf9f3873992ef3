BInputTensorJaž’*ékNq9
ùÆÿ