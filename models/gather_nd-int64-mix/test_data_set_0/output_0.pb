BOutputTensorJHµ-ğf‰dœ,È|ÓÊyö
i*pBÈ|ÓÊyö
i*pBµ-ğf‰dœ,µ-ğf‰dœ,È|ÓÊyö
i*pB