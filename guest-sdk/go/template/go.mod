module {{name}}

go 1.24

require windlass.dev/go v0.0.0

replace windlass.dev/go => ./sdk
