// Package e2e tries the supervisor on real machines: what it promises when QEMU, the guest or it itself is killed, stopped or asked for something else.
package e2e
