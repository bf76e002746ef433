module github.com/redlatch/redlatch/cmd/redlatch

go 1.26

require github.com/redlatch/redlatch v0.0.0
