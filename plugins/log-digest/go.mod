module windlass.dev/plugins/log-digest

go 1.24

require windlass.dev/go v0.0.0

replace windlass.dev/go => ../../guest-sdk/go
