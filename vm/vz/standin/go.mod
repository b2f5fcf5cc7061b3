module github.com/Code-Hex/vz/v3

go 1.26.3
