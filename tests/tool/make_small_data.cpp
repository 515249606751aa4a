// SPDX-License-Identifier: Apache-2.0
// make_small_data DIR: small data sets in MNIST's layout, good and bad ones, one directory each.
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <tw/base/random.hpp>

namespace {

using std::filesystem::path;

std::string big_endian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8), static_cast<char>(value)};
}

void write(const path& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

std::string read(const path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write_gzip(const path& file, const std::string& bytes) {
  gzFile out = gzopen(file.c_str(), "wb");
  gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(out);
}

// Noise with a bright row that tells the class.
void write_split(const path& folder, const std::string& prefix, uint32_t samples) {
  tw::CounterRng random(samples);
  std::string images = big_endian(0x0803) + big_endian(samples) + big_endian(28) + big_endian(28);
  std::string labels = big_endian(0x0801) + big_endian(samples);
  for (uint32_t sample = 0; sample < samples; ++sample) {
    const uint32_t label = sample % 10;
    for (uint32_t pixel = 0; pixel < 28 * 28; ++pixel) images += static_cast<char>(random.below(64) + (pixel / 28 == 4 + 2 * label ? 190 : 0));
    labels += static_cast<char>(label);
  }
  write(folder / (prefix + "-images-idx3-ubyte"), images);
  write(folder / (prefix + "-labels-idx1-ubyte"), labels);
}

path make(const path& folder, uint32_t train_samples) {
  std::filesystem::create_directories(folder);
  write_split(folder, "train", train_samples);
  write_split(folder, "t10k", 20);
  return folder;
}

void write_table(const path& file, int64_t rows, int64_t columns) {
  std::string text;
  for (int64_t i = 0; i < rows * columns; ++i) text += std::to_string(i % 7) + (i % columns == columns - 1 ? '\n' : ',');
  write(file, text);
}

// A regression on 4 numbers; `test_columns` in the test set.
void make_tables(const path& folder, int64_t test_columns) {
  for (const char* split : {"train", "test"}) {
    std::filesystem::create_directories(folder / split);
    write_table(folder / split / "inputs.csv", 12, split == std::string("test") ? test_columns : 4);
    write_table(folder / split / "targets.csv", 12, 1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const path root = argv[1];
  std::filesystem::remove_all(root);
  make(root / "good", 200);
  make(root / "three", 3);
  make(root / "it's", 20);
  make_tables(root / "tables", 4);
  make_tables(root / "wider_test", 5);

  // The same as the good one but for the labels of the test set.
  const path test_labels = make(root / "poisoned", 200) / "t10k-labels-idx1-ubyte";
  std::string poisoned = read(test_labels);
  for (size_t i = 8; i < poisoned.size(); ++i) poisoned[i] = static_cast<char>((poisoned[i] + 3) % 10);
  write(test_labels, poisoned);

  const path truncated = make(root / "truncated", 200) / "train-images-idx3-ubyte";
  std::filesystem::resize_file(truncated, 20000);

  const path plain = make(root / "truncated_gzip", 200) / "train-images-idx3-ubyte";
  const path packed = root / "truncated_gzip" / "train-images-idx3-ubyte.gz";
  write_gzip(packed, read(plain));
  std::filesystem::remove(plain);
  std::filesystem::resize_file(packed, std::filesystem::file_size(packed) / 2);

  const path magic = make(root / "wrong_magic", 200) / "train-images-idx3-ubyte";
  write(magic, "PNG!" + read(magic).substr(4));

  const path labels = make(root / "bad_label", 200) / "train-labels-idx1-ubyte";
  std::string bytes = read(labels);
  bytes[8 + 7] = 10;
  write(labels, bytes);
}
