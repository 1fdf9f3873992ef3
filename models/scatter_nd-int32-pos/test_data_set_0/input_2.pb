BUpdatesTensorJšÓÒKM
³üÆAQ­@yï^º°4è+