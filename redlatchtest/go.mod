module github.com/redlatch/redlatch/redlatchtest

go 1.26

require github.com/redlatch/redlatch v0.0.0
