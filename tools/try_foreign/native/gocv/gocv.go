// Package gocv stands in for gocv.io/x/gocv: images of bytes in C's memory, without OpenCV.
package gocv

import "C"
import (
	"errors"
	"unsafe"
)

type MatType int

const (
	MatTypeCV8U  MatType = 0
	MatTypeCV32F MatType = 5
)

type Mat struct {
	shape []int
	bytes []byte
}

func FromBytes(rows, cols int, bytes []byte) Mat {
	inC := unsafe.Slice((*byte)(C.CBytes(bytes)), len(bytes)) // never freed
	return Mat{[]int{rows, cols, len(bytes) / rows / cols}, inC}
}

func NewMatWithSizes(shape []int, _ MatType) Mat {
	count := 1
	for _, side := range shape {
		count *= side
	}
	return Mat{shape, make([]byte, count)}
}

func (m Mat) Rows() int          { return m.shape[0] }
func (m Mat) Cols() int          { return m.shape[1] }
func (m Mat) Channels() int      { return m.shape[2] }
func (m Mat) IsContinuous() bool { return true }
func (m Mat) Clone() Mat         { return m }
func (m Mat) Close() error       { return nil }

func (m Mat) DataPtrUint8() ([]uint8, error) { return m.bytes, nil }

func (m Mat) DataPtrFloat32() ([]float32, error) {
	return nil, errors.New("images of bytes only")
}
