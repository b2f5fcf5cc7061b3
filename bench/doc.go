// Package bench measures what a guest costs, each against a baseline, in the same run.
//
// # The gateway's link
//
// BenchmarkNetwork, Debian on emulated amd64, QEMU 7.2, two busy processors. Ratios of rates to slirp's
// with send, receive and connect, of times with echo and dns. Each row is one boot, so connect, echo and
// dns vary by a fifth between equal rows.
//
//	link                        send  receive  echo  connect  dns
//	MTU 1500, batches of 32     1.56  1.22     1.15  0.97     1.02
//	the same, ACKs not held     1.10  1.00     1.06  1.08     1.13
//	the same, batches of 1      1.37  1.61     0.95  0.91     1.19
//	MTU 9000                    1.51  2.97     1.06  0.82     0.88
//	MTU 65520                   4.32  3.56     1.13  0.85     1.04
//
// The MTU is 1500, which is faster than slirp. Larger ones were tried neither with macOS nor with the
// suites of the drivers. QEMU's stream netdev was not tried: drivers take datagram sockets alone, as
// macOS does.
//
// Without QEMU, with a second gVisor stack for the guest, an echo takes 42 µs through the gateway, 55 µs
// if ACKs are not held, and 15 to 21 µs directly. A profile of it shows 72 % in system calls. With QEMU it
// takes at least 450 µs: the guest and the switch to another process are the floor, not the stack.
package bench
