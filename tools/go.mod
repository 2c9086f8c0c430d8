module parley/tools

go 1.26.0
