//go:build linux

package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// bridgePatience is how long the host may take to answer.
const bridgePatience = 20 * time.Second

// request returns a request that the suite's server answers with the user.
func request(token string) string {
	return "GET /api/config/who HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token + "\r\nX-Osaurus-Plugin: test\r\nConnection: close\r\n\r\n"
}

// ask SOCKET TOKEN [UID] prints the host's answer to a token, as another user if one is given. The
// socket is a path or the number of a vsock port.
func ask(args []string) {
	if len(args) > 2 {
		uid, _ := strconv.Atoi(args[2])
		if err := unix.Setresuid(uid, uid, uid); err != nil {
			fmt.Println("not", uid, err)
			return
		}
	}
	c, err := connect(args[0])
	if err != nil {
		fmt.Println("refused", err)
		return
	}
	defer c.Close()
	fmt.Println(answer(c, args[1]))
}

func connect(at string) (io.ReadWriteCloser, error) {
	port, err := strconv.ParseUint(at, 10, 32)
	if err != nil {
		return net.Dial("unix", at)
	}
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), at), unix.Connect(fd, &unix.SockaddrVM{CID: unix.VMADDR_CID_HOST, Port: uint32(port)})
}

// answer returns the status and body of the host's answer, or "closed".
func answer(c io.ReadWriter, token string) string {
	if d, ok := c.(net.Conn); ok {
		_ = d.SetDeadline(time.Now().Add(bridgePatience))
	}
	if _, err := io.WriteString(c, request(token)); err != nil {
		return "closed"
	}
	all, err := io.ReadAll(c)
	if len(all) == 0 {
		return "closed"
	}
	head, body, _ := strings.Cut(string(all), "\r\n\r\n")
	status := strings.Fields(head)
	if err != nil || len(status) < 2 {
		return fmt.Sprintf("%q %v", all, err)
	}
	return status[1] + " " + body
}
