module adapter

go 1.26

require bigset v0.0.0

replace bigset => ../../../..
