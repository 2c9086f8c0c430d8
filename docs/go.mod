module parley/docs

go 1.26.0
