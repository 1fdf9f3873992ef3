BOutputTensors[0]J0]Œ
BBà¿y~pù°!sèºÒìYƒfW÷4à•åYÆ3–ÓıÑGM5pøÆl