// Runs frames through a pool of go-rknnlite from six goroutines; prints a hash for each frame.
package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"sync"

	"github.com/swdee/go-rknnlite"
	"gocv.io/x/gocv"
)

func main() {
	side, _ := strconv.Atoi(os.Args[3])
	frames, err := os.ReadFile(os.Args[2])
	if err != nil {
		panic(err)
	}
	pool, err := rknnlite.NewPoolByPlatform("rk3588", 3, os.Args[1])
	if err != nil {
		panic(err)
	}
	size := side * side * 3
	numbers := make(chan int)
	hashes := make([]string, len(frames)/size)
	var waiting sync.WaitGroup
	for worker := 0; worker < 6; worker++ {
		waiting.Add(1)
		go func() {
			defer waiting.Done()
			for number := range numbers {
				pixels := frames[number*size : (number+1)*size]
				view, err := gocv.NewMatFromBytes(side, side, gocv.MatTypeCV8UC3, pixels)
				if err != nil {
					panic(err)
				}
				mat := view.Clone() // in C's memory
				runtime := pool.Get()
				outputs, err := runtime.Inference([]gocv.Mat{mat})
				if err != nil {
					panic(err)
				}
				hash := sha256.New()
				for _, output := range outputs.Output {
					binary.Write(hash, binary.LittleEndian, output.BufFloat)
				}
				outputs.Free()
				mat.Close()
				view.Close()
				pool.Return(runtime)
				hashes[number] = fmt.Sprintf("%x", hash.Sum(nil))
			}
		}()
	}
	for number := range hashes {
		numbers <- number
	}
	close(numbers)
	waiting.Wait()
	pool.Close()
	for _, hash := range hashes {
		fmt.Println(hash)
	}
}
