BInputTensorJµ-ğf‰dœ,È|ÓÊyö
i*pB