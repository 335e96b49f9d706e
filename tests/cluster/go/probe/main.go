// Command probe is what the test bed's own tests run in pods: it sees the cluster as a container does.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"
	patience       = 30 * time.Second
	pause          = 100 * time.Millisecond
	mebibyte       = 1 << 20
)

var commands = map[string]func(arguments []string) error{
	"api-version": apiVersion,
	"dial":        dial,
	"eat":         eat,
	"exit":        exit,
	"read":        read,
	"serve":       serve,
	"sleep":       sleep,
	"write":       write,
}

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: probe {api-version|dial HOST:PORT|eat MEBIBYTES|exit CODE|read FILE|serve PORT|sleep|write FILE}")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// serve answers every connection with this host's name.
func serve(arguments []string) error {
	listener, err := net.Listen("tcp", ":"+arguments[0])
	if err != nil {
		return err
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	fmt.Println("serving")
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		fmt.Fprintf(connection, "hello from %s\n", name)
		connection.Close()
	}
}

// dial connects to a peer that may not have a name yet, and prints what it says.
func dial(arguments []string) error {
	var last error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(pause) {
		connection, err := net.DialTimeout("tcp", arguments[0], time.Second)
		if err != nil {
			last = err
			continue
		}
		defer connection.Close()
		line, err := bufio.NewReader(connection).ReadString('\n')
		fmt.Print(line)
		return err
	}
	return last
}

// apiVersion asks the API server through its Service, with the credentials of the pod's service account.
func apiVersion([]string) error {
	authority, err := os.ReadFile(serviceAccount + "/ca.crt")
	if err != nil {
		return err
	}
	token, err := os.ReadFile(serviceAccount + "/token")
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	client := http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://kubernetes.default.svc/version", nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}

// eat takes memory and uses every page of it.
func eat(arguments []string) error {
	count, err := strconv.Atoi(arguments[0])
	if err != nil {
		return err
	}
	var eaten [][]byte
	for range count {
		piece := make([]byte, mebibyte)
		for i := range piece {
			piece[i] = 1
		}
		eaten = append(eaten, piece)
	}
	fmt.Println("ate", len(eaten), "MiB")
	return sleep(nil)
}

func exit(arguments []string) error {
	code, err := strconv.Atoi(arguments[0])
	if err != nil {
		return err
	}
	fmt.Println("ending with", code)
	os.Exit(code)
	return nil
}

// sleep waits until the container is told to end.
func sleep([]string) error {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	<-ended
	return nil
}

func write(arguments []string) error {
	return os.WriteFile(arguments[0], []byte("changed\n"), 0o600)
}

func read(arguments []string) error {
	content, err := os.ReadFile(arguments[0])
	fmt.Print(string(content))
	return err
}
