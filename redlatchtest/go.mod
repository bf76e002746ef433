module github.com/redlatch/redlatch/redlatchtest

go 1.26

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/redis/rueidis v1.0.79
	github.com/redlatch/redlatch v0.1.0
	github.com/yuin/gopher-lua v1.1.1
)

require golang.org/x/sys v0.47.0 // indirect
