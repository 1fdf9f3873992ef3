BUpdatesTensorJ7tV
èí¨™gÅFJáüäûZ4ƒ¬Ôk!