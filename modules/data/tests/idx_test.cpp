// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <zlib.h>

#include <fstream>
#include <tw/data.hpp>

namespace idx_test {

std::filesystem::path file(const std::string& name) { return std::filesystem::path(testing::TempDir()) / ("tw_idx_" + name); }

std::filesystem::path write_plain(const std::string& name, const std::string& bytes) {
  std::ofstream(file(name), std::ios::binary) << bytes;
  return file(name);
}

std::filesystem::path write_gzip(const std::string& name, const std::string& bytes) {
  gzFile out = gzopen(file(name).c_str(), "wb");
  gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(out);
  return file(name);
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// An IDX file of 2 x 3 elements of type `code`, with the bytes `content`.
std::string idx(char code, const std::string& content) {
  return std::string{0, 0, code, 2} + std::string{0, 0, 0, 2} + std::string{0, 0, 0, 3} + content;
}

void expect_error(const std::filesystem::path& path, int64_t offset, const std::string& problem) {
  try {
    tw::read_idx(path);
    ADD_FAILURE() << "no exception for " << path;
  } catch (const tw::FileError& error) {
    EXPECT_EQ(error.path(), path);
    EXPECT_EQ(error.offset(), offset) << error.what();
    EXPECT_NE(std::string(error.what()).find(problem), std::string::npos) << error.what();
  }
}

TEST(Idx, ReadsBytesPlainAndGzip) {
  const std::string bytes = idx(0x08, {0, 1, 2, 3, 4, static_cast<char>(255)});
  const auto expected = torch::tensor({0, 1, 2, 3, 4, 255}, torch::kByte).reshape({2, 3});
  EXPECT_TRUE(tw::read_idx(write_plain("bytes", bytes)).equal(expected));
  EXPECT_TRUE(tw::read_idx(write_gzip("bytes.gz", bytes)).equal(expected));
  const std::string in_two = bytes_of(write_gzip("begin.gz", bytes.substr(0, 9))) + bytes_of(write_gzip("rest.gz", bytes.substr(9)));
  EXPECT_TRUE(tw::read_idx(write_plain("in_two.gz", in_two)).equal(expected));
}

TEST(Idx, ReadsEveryTypeAsBigEndian) {
  const std::string int16("\x00\x01\xff\xfe\x00\x03\x00\x04\x00\x05\x7f\xff", 12);
  EXPECT_TRUE(tw::read_idx(write_plain("int16", idx(0x0B, int16))).equal(torch::tensor({1, -2, 3, 4, 5, 32767}, torch::kShort).reshape({2, 3})));
  std::string int32;
  std::string floats;
  std::string doubles;
  for (char i = 1; i <= 6; ++i) {
    int32 += std::string{0, 0, i, 0};
    floats += std::string{0x3f, static_cast<char>(0x80), 0, 0};  // 1.0f
    doubles += std::string{0x40, 0, 0, 0, 0, 0, 0, 0};           // 2.0
  }
  EXPECT_TRUE(
      tw::read_idx(write_plain("int32", idx(0x0C, int32))).equal(torch::tensor({256, 512, 768, 1024, 1280, 1536}, torch::kInt).reshape({2, 3})));
  EXPECT_TRUE(tw::read_idx(write_plain("float", idx(0x0D, floats))).equal(torch::ones({2, 3})));
  EXPECT_TRUE(tw::read_idx(write_plain("double", idx(0x0E, doubles))).equal(torch::full({2, 3}, 2.0, torch::kDouble)));
  EXPECT_TRUE(tw::read_idx(write_plain("int8", idx(0x09, "\xff\xff\xff\xff\xff\xff"))).equal(torch::full({2, 3}, -1, torch::kChar)));
}

TEST(Idx, NamesFileAndOffsetOfWhatIsWrong) {
  const std::string good = idx(0x08, "abcdef");
  expect_error(file("does_not_exist"), 0, "cannot be opened");
  expect_error(write_plain("empty", ""), 0, "ends here, 4 bytes early");
  expect_error(write_plain("cut_header", good.substr(0, 6)), 6, "ends here, 2 bytes early");
  expect_error(write_plain("cut_data", good.substr(0, good.size() - 2)), 16, "ends here, 2 bytes early");
  expect_error(write_plain("too_long", good + "x"), 18, "should end here");
  expect_error(write_plain("magic", "x" + good.substr(1)), 4, "not an IDX file");
  expect_error(write_plain("type", idx(0x42, "abcdef")), 4, "unknown element type");
  expect_error(write_plain("no_dimension", std::string{0, 0, 8, 0}), 4, "no dimension");
  const char max = static_cast<char>(255);
  expect_error(write_plain("absurd", std::string{0, 0, 8, 2, max, max, max, max, max, max, max, max}), 12, "the dimensions are too large");
  const std::string huge(4, max);
  expect_error(write_plain("empty_but_absurd", std::string{0, 0, 8, 3} + std::string(4, '\0') + huge + huge), 16, "the dimensions are too large");
  expect_error(write_plain("promises_much", std::string{0, 0, 8, 1, 127, 0, 0, 0}), 8, "too small for its dimensions");

  const std::string gzip = bytes_of(write_gzip("packed.gz", good));
  expect_error(write_plain("garbage.gz", gzip + "garbage"), 18, "7 bytes follow the gzip stream");
  expect_error(write_plain("one_more.gz", gzip + bytes_of(write_gzip("more.gz", "x"))), 18, "should end here");
  expect_error(write_plain("zeros.gz", gzip + std::string(4, '\0')), 18, "4 bytes follow the gzip stream");
  std::string damaged = gzip;
  damaged[damaged.size() - 6] ^= 1;  // of the checksum
  expect_error(write_plain("damaged.gz", damaged), 18, "damaged");

  const auto packed = write_gzip("cut.gz", idx(0x08, "abcdef"));
  std::filesystem::resize_file(packed, std::filesystem::file_size(packed) - 10);
  EXPECT_THROW(tw::read_idx(packed), tw::FileError);
}

TEST(Idx, RefusesAFileThatIsCutAnywhere) {
  const std::string good = idx(0x0B, "abcdefghijkl");
  const auto packed = write_gzip("whole.gz", good);
  const auto packed_size = static_cast<size_t>(std::filesystem::file_size(packed));
  const std::string packed_bytes = bytes_of(packed);
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_THROW(tw::read_idx(write_plain("cut", good.substr(0, length))), tw::FileError) << length;
  for (size_t length = 0; length < packed_size; ++length) {
    EXPECT_THROW(tw::read_idx(write_plain("cut.gz", packed_bytes.substr(0, length))), tw::FileError) << length;
  }
}

// Two images of 1 x 1 pixel, and the labels `labels`.
std::filesystem::path write_mnist(const std::string& labels) {
  const auto directory = file("mnist");
  std::filesystem::create_directories(directory);
  write_plain("mnist/train-images-idx3-ubyte",
              std::string{0, 0, 8, 3} + std::string{0, 0, 0, 2} + std::string{0, 0, 0, 1} + std::string{0, 0, 0, 1} + "ab");
  write_plain("mnist/train-labels-idx1-ubyte", std::string{0, 0, 8, 1} + std::string{0, 0, 0, static_cast<char>(labels.size())} + labels);
  return directory;
}

TEST(ImageDataset, NamesTheLabelThatIsOutOfRange) {
  EXPECT_EQ(tw::load_mnist(write_mnist({0, 9}), tw::Split::train).size(), 2);
  const auto expect_refused = [](const std::string& labels, int64_t offset, const std::string& problem) {
    try {
      (void)tw::load_mnist(write_mnist(labels), tw::Split::train);
      ADD_FAILURE() << "no exception";
    } catch (const tw::FileError& error) {
      EXPECT_EQ(error.path().filename(), "train-labels-idx1-ubyte");
      EXPECT_EQ(error.offset(), offset);
      EXPECT_NE(std::string(error.what()).find(problem), std::string::npos) << error.what();
    }
  };
  expect_refused({0, 10}, 9, "the label of row 1 must be below 10");
  expect_refused({0}, 4, "holds 1 labels");
  EXPECT_THROW((void)tw::load_mnist(write_mnist({0, 9}), tw::Split::test), tw::FileError);
}

TEST(ImageDataset, MakesBatchesInTheGivenOrder) {
  const auto images = torch::tensor({0, 255, 51, 102}, torch::kByte).reshape({4, 1, 1}).expand({4, 2, 3});
  const tw::ImageDataset dataset(images, torch::tensor({0, 1, 2, 3}, torch::kByte), 10);
  const std::vector<int64_t> order{3, 1};
  const auto batch = dataset.batch(order);
  EXPECT_EQ(batch.size(), 2);
  EXPECT_EQ(batch.inputs.sizes(), (std::vector<int64_t>{2, 1, 2, 3}));
  EXPECT_TRUE(batch.targets.equal(torch::tensor({3, 1}, torch::kLong)));
  EXPECT_NEAR(batch.inputs[0].max().item<float>(), 2 * 0.4 - 1, 1e-6);  // a float of about 1: two roundings of 6e-8
  EXPECT_NEAR(batch.inputs[1].min().item<float>(), 1.0, 1e-6);
  EXPECT_EQ(dataset.batch({}).inputs.sizes(), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_THROW((void)dataset.batch(std::vector<int64_t>{4}), tw::ContractError);
}

TEST(ImageDataset, ReadsFashionMnist) {
  const std::filesystem::path directory = "/usr/share/datasets/fashion-mnist";
  const auto train = tw::load_mnist(directory, tw::Split::train);
  const auto test = tw::load_mnist(directory, tw::Split::test);
  EXPECT_EQ(train.size(), 60000);
  EXPECT_EQ(test.size(), 10000);
  EXPECT_EQ(train.height(), 28);
  EXPECT_EQ(train.classes(), 10);
  EXPECT_EQ(train.batch(std::vector<int64_t>{0}).targets.item<int64_t>(), 9);  // the first image is an ankle boot
}

}  // namespace idx_test
