module windlass.dev/go

go 1.24
