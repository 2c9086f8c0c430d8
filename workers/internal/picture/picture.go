package picture

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/jpeg"
	"image/png"

	"golang.org/x/image/webp"

	"parley/shared/imageinfo"
)

const (
	// MaxSide is the maximum number of pixels on each side of a converted image. Models would scale
	// down larger images.
	MaxSide = 2048
	// MaxBytes is the maximum size of a converted image in bytes.
	MaxBytes = 4 << 20

	largePNG = 1 << 20 // number of bytes above which an image is encoded as JPEG instead of PNG
)

// errTooLarge means that the image is too large in every encoding.
var errTooLarge = errors.New("the image is too large even when it is scaled down")

// Picture is a converted image. MediaType is image/png or image/jpeg. Width and Height are in
// pixels.
type Picture struct {
	MediaType     string
	Width, Height int
	Content       []byte
}

// Convert decodes an image, scales it down, and encodes it as PNG or JPEG. The argument content is
// a PNG, JPEG, GIF or WebP file.
//
// It returns an error of package imageinfo if the format is unknown or the image has too many
// pixels, and errTooLarge if the result exceeds MaxBytes. If the image is damaged, it returns the
// error of the decoder. The memory that decoding needs is bounded by imageinfo.MaxPixels, because
// the size is read before the image is decoded.
func Convert(content []byte) (Picture, error) {
	info, err := imageinfo.Read(bytes.NewReader(content))
	if err != nil {
		return Picture{}, err //nolint:wrapcheck // words for the caller
	}

	decoded, err := decode(info.MediaType, content)
	if err != nil {
		return Picture{}, fmt.Errorf("decoding the image: %w", err)
	}
	// The decoded size is checked, too, because it may differ from the size that the header states.
	if size := decoded.Bounds(); int64(size.Dx())*int64(size.Dy()) > imageinfo.MaxPixels {
		return Picture{}, imageinfo.ErrPixels
	}

	upright := turn(shrink(decoded), orientation(info.MediaType, content))
	return encode(upright, info.MediaType == imageinfo.JPEG)
}

// decode decodes an image. It decodes only the first frame of an animation. A type other than PNG,
// JPEG and GIF is decoded as WebP.
func decode(mediaType string, content []byte) (image.Image, error) {
	in := bytes.NewReader(content)
	switch mediaType {
	case imageinfo.PNG:
		return png.Decode(in)
	case imageinfo.JPEG:
		return jpeg.Decode(in)
	case imageinfo.GIF:
		return gif.Decode(in)
	default:
		return webp.Decode(in)
	}
}

// shrink returns the image with at most MaxSide pixels on each side. Each pixel is the average of a
// square of the original pixels. The scale is a whole number, so the result may be smaller than
// MaxSide.
func shrink(from image.Image) *image.RGBA {
	size := from.Bounds()
	longest := max(size.Dx(), size.Dy())
	n := (longest + MaxSide - 1) / MaxSide
	if n <= 1 {
		out := image.NewRGBA(image.Rect(0, 0, size.Dx(), size.Dy()))
		draw.Draw(out, out.Bounds(), from, size.Min, draw.Src)
		return out
	}

	// Pixels at the right and lower edges that do not fill a square are dropped.
	out := image.NewRGBA(image.Rect(0, 0, max(size.Dx()/n, 1), max(size.Dy()/n, 1)))
	for y := range out.Rect.Dy() {
		for x := range out.Rect.Dx() {
			out.SetRGBA(x, y, average(from, image.Rect(size.Min.X+x*n, size.Min.Y+y*n, size.Min.X+x*n+n, size.Min.Y+y*n+n).Intersect(size)))
		}
	}
	return out
}

// average returns the average color of the given part of an image. An empty part is transparent
// black.
func average(from image.Image, part image.Rectangle) color.RGBA {
	var r, g, b, a, count uint64
	for y := part.Min.Y; y < part.Max.Y; y++ {
		for x := part.Min.X; x < part.Max.X; x++ {
			pr, pg, pb, pa := from.At(x, y).RGBA()
			r, g, b, a, count = r+uint64(pr), g+uint64(pg), b+uint64(pb), a+uint64(pa), count+1
		}
	}
	if count == 0 {
		return color.RGBA{}
	}
	eight := func(sum uint64) uint8 { return uint8(sum / count >> 8) }
	return color.RGBA{R: eight(r), G: eight(g), B: eight(b), A: eight(a)}
}

// turn rotates and mirrors an image according to an EXIF orientation from 1 to 8. It returns the
// image itself if the orientation is 1 or invalid.
func turn(from *image.RGBA, orientation int) *image.RGBA {
	if orientation < 2 || orientation > 8 {
		return from
	}
	width, height := from.Rect.Dx(), from.Rect.Dy()
	out := image.NewRGBA(image.Rect(0, 0, width, height))
	// Orientations 5 to 8 turn the image by 90 or 270 degrees, which exchanges width and height.
	if orientation >= 5 {
		out = image.NewRGBA(image.Rect(0, 0, height, width))
	}

	for y := range height {
		for x := range width {
			toX, toY := x, y
			switch orientation {
			case 2:
				toX = width - 1 - x
			case 3:
				toX, toY = width-1-x, height-1-y
			case 4:
				toY = height - 1 - y
			case 5:
				toX, toY = y, x
			case 6:
				toX, toY = height-1-y, x
			case 7:
				toX, toY = height-1-y, width-1-x
			case 8:
				toX, toY = y, width-1-x
			}
			out.SetRGBA(toX, toY, from.RGBAAt(x, y))
		}
	}
	return out
}

// encode encodes a photograph as JPEG. It encodes any other image as PNG, or as JPEG if the PNG
// would be large. It returns errTooLarge if no encoding is below MaxBytes.
func encode(from *image.RGBA, photograph bool) (Picture, error) {
	out := Picture{Width: from.Rect.Dx(), Height: from.Rect.Dy()}
	var b bytes.Buffer
	if !photograph {
		if err := png.Encode(&b, from); err != nil {
			return out, fmt.Errorf("encoding the image: %w", err)
		}
		if b.Len() <= largePNG {
			out.MediaType, out.Content = imageinfo.PNG, b.Bytes()
			return out, nil
		}
	}

	// JPEG has no transparency, so the image is drawn on a white background.
	opaque := image.NewRGBA(from.Rect)
	draw.Draw(opaque, opaque.Rect, image.White, image.Point{}, draw.Src)
	draw.Draw(opaque, opaque.Rect, from, image.Point{}, draw.Over)
	for _, quality := range []int{85, 60} {
		b.Reset()
		if err := jpeg.Encode(&b, opaque, &jpeg.Options{Quality: quality}); err != nil {
			return out, fmt.Errorf("encoding the image: %w", err)
		}
		if b.Len() <= MaxBytes {
			out.MediaType, out.Content = imageinfo.JPEG, b.Bytes()
			return out, nil
		}
	}
	return out, errTooLarge
}
