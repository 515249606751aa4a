// SPDX-License-Identifier: Apache-2.0
#include "files.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <tw/data.hpp>

namespace npy_test {

using tw::testing::expect_file_error;
using tw::testing::write_file;

// A file of format `major`.0 with `header` as given.
std::string npy(const std::string& header, const std::string& content, char major = 1) {
  const auto length = header.size();
  std::string bytes = std::string("\x93NUMPY") + major + '\0' + static_cast<char>(length & 255) + static_cast<char>(length >> 8);
  if (major > 1) bytes += std::string(2, '\0');
  return bytes + header + content;
}

std::string header(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }\n";
}

template <class T>
std::string bytes_of(std::initializer_list<T> values, bool big_endian = false) {
  std::string bytes;
  for (const T& value : values) {
    std::string one(reinterpret_cast<const char*>(&value), sizeof(T));
    if (big_endian) std::reverse(one.begin(), one.end());
    bytes += one;
  }
  return bytes;
}

template <class T>
void expect_both_orders(const std::string& code, torch::Dtype dtype) {
  const auto expected = torch::tensor({1, 2, 3}, dtype);
  for (const bool big : {false, true}) {
    const std::string descr = (sizeof(T) == 1 ? "|" : big ? ">" : "<") + code;
    const auto read = tw::read_npy(write_file("dtype.npy", npy(header(descr, "(3,)"), bytes_of<T>({T(1), T(2), T(3)}, big))));
    EXPECT_EQ(read.scalar_type(), dtype) << descr;
    EXPECT_EQ(std::memcmp(read.data_ptr(), expected.data_ptr(), expected.nbytes()), 0) << descr;
  }
}

TEST(Npy, ReadsEveryTypeInBothByteOrders) {
  expect_both_orders<int8_t>("i1", torch::kChar);
  expect_both_orders<uint8_t>("u1", torch::kByte);
  expect_both_orders<int16_t>("i2", torch::kShort);
  expect_both_orders<uint16_t>("u2", torch::kUInt16);
  expect_both_orders<int32_t>("i4", torch::kInt);
  expect_both_orders<uint32_t>("u4", torch::kUInt32);
  expect_both_orders<int64_t>("i8", torch::kLong);
  expect_both_orders<uint64_t>("u8", torch::kUInt64);
  expect_both_orders<float>("f4", torch::kFloat);
  expect_both_orders<double>("f8", torch::kDouble);
  expect_both_orders<c10::Half>("f2", torch::kHalf);
  const auto bools = tw::read_npy(write_file("bool.npy", npy(header("|b1", "(3,)"), {0, 1, 2})));
  EXPECT_TRUE(bools.equal(torch::tensor({false, true, true})));
  EXPECT_EQ(bools.data_ptr<bool>()[2] ? 1 : 0, 1);
  const auto expected = torch::complex(torch::tensor({1.0F, 3.0F}), torch::tensor({2.0F, 4.0F}));
  EXPECT_TRUE(tw::read_npy(write_file("complex.npy", npy(header("<c8", "(2,)"), bytes_of<float>({1, 2, 3, 4})))).equal(expected));
  EXPECT_TRUE(tw::read_npy(write_file("complex.npy", npy(header(">c8", "(2,)"), bytes_of<float>({1, 2, 3, 4}, true)))).equal(expected));
  const auto doubles = tw::read_npy(write_file("complex.npy", npy(header(">c16", "(2,)"), bytes_of<double>({1, 2, 3, 4}, true))));
  EXPECT_TRUE(doubles.equal(expected.to(torch::kComplexDouble)));
}

TEST(Npy, ReadsAllFormatsShapesAndOrders) {
  const auto six = bytes_of<int32_t>({0, 1, 2, 3, 4, 5});
  const auto expected = torch::arange(6, torch::kInt);
  for (const char major : {1, 2, 3}) {
    EXPECT_TRUE(tw::read_npy(write_file("format.npy", npy(header("<i4", "(2, 3)"), six, major))).equal(expected.reshape({2, 3})));
  }
  EXPECT_TRUE(tw::read_npy(write_file("scalar.npy", npy(header("<i4", "()"), bytes_of<int32_t>({7})))).equal(torch::tensor(7, torch::kInt)));
  EXPECT_EQ(tw::read_npy(write_file("empty.npy", npy(header("<i4", "(0, 3)"), ""))).sizes(), (std::vector<int64_t>{0, 3}));
  // In Fortran order the first index varies fastest: element (i, j) of 2 x 3 is the (i + 2 j)-th.
  const auto fortran = tw::read_npy(write_file("fortran.npy", npy(header("<i4", "(2, 3)", true), six)));
  EXPECT_TRUE(fortran.equal(torch::tensor({0, 2, 4, 1, 3, 5}, torch::kInt).reshape({2, 3})));
  EXPECT_TRUE(fortran.is_contiguous());
  // Habits of other writers: double quotes, another order of keys, no blanks, no final comma, Python 2's long integers.
  const std::string other = "{\"shape\":(2L,3L),\"fortran_order\":False,\"descr\":\"=i4\"}";
  EXPECT_TRUE(tw::read_npy(write_file("other.npy", npy(other, six))).equal(expected.reshape({2, 3})));
}

TEST(Npy, WritesWhatItReads) {
  const auto path = write_file("written.npy", "");
  for (const auto dtype :
       {torch::kBool, torch::kByte, torch::kShort, torch::kLong, torch::kHalf, torch::kFloat, torch::kDouble, torch::kComplexDouble}) {
    for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{}, {0}, {5}, {2, 3, 4}}) {
      const auto tensor = (torch::rand(shape) * 100).to(dtype);
      tw::write_npy(path, tensor);
      const auto read = tw::read_npy(path);
      EXPECT_EQ(read.scalar_type(), dtype);
      EXPECT_TRUE(read.equal(tensor)) << shape;
    }
  }
  const auto view = torch::arange(12).reshape({3, 4}).t();
  tw::write_npy(path, view);
  EXPECT_TRUE(tw::read_npy(path).equal(view));
  EXPECT_EQ((std::filesystem::file_size(path) - 12 * 8) % 64, 0U);  // the first element is aligned, as NumPy's readers expect
  EXPECT_THROW(tw::write_npy(path, torch::zeros({2}, torch::kBFloat16)), tw::ContractError);
  EXPECT_THROW(tw::write_npy("/does/not/exist.npy", view), tw::FileError);
}

TEST(Npy, GivesRowsInAnyOrder) {
  const auto whole = torch::arange(24, torch::kInt).reshape({4, 3, 2});
  const std::vector<int64_t> order{3, 0, 3};
  const auto expected = whole.index_select(0, torch::tensor({3, 0, 3}));
  const auto path = write_file("rows.npy", "");
  tw::write_npy(path, whole);
  const tw::NpyFile file(path);
  EXPECT_EQ(file.rows(), 4);
  EXPECT_EQ(file.row_shape().vec(), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(file.row_bytes(), 24);
  EXPECT_TRUE(file.read_rows(order).equal(expected));
  EXPECT_EQ(file.read_rows({}).sizes(), (std::vector<int64_t>{0, 3, 2}));
  EXPECT_THROW((void)file.read_rows(std::vector<int64_t>{4}), tw::ContractError);
  EXPECT_THROW((void)file.read_rows(std::vector<int64_t>{-1}), tw::ContractError);

  const auto transposed = whole.permute({2, 1, 0}).contiguous();
  const std::string content(static_cast<const char*>(transposed.data_ptr()), transposed.nbytes());
  const tw::NpyFile fortran(write_file("fortran_rows.npy", npy(header("<i4", "(4, 3, 2)", true), content)));
  EXPECT_TRUE(fortran.read_rows(order).equal(expected));
  const tw::NpyFile big(write_file("big_rows.npy", npy(header(">i4", "(2,)"), bytes_of<int32_t>({5, 6}, true))));
  EXPECT_TRUE(big.read_rows(std::vector<int64_t>{1}).equal(torch::tensor({6}, torch::kInt)));
  expect_file_error([&] { tw::NpyFile(write_file("scalar.npy", npy(header("<i4", "()"), bytes_of<int32_t>({7})))); }, "scalar.npy", 0, "rows");
}

void expect_refused(const std::string& bytes, int64_t offset, const std::string& problem) {
  const auto path = write_file("refused.npy", bytes);
  expect_file_error([&] { tw::read_npy(path); }, "refused.npy", offset, problem);
}

TEST(Npy, NamesFileAndOffsetOfWhatIsWrong) {
  const auto good = npy(header("<i4", "(2,)"), "12345678");
  const auto size = static_cast<int64_t>(good.size());
  expect_file_error([] { tw::read_npy("/does/not/exist.npy"); }, "exist.npy", 0, "cannot be opened");
  expect_file_error([] { tw::read_npy("/tmp"); }, "tmp", 0, "not an ordinary file");
  expect_refused("x" + good.substr(1), 0, "not an NPY file");
  expect_refused(good + "x", size, "should end here");
  expect_refused(npy(header("<i4", "(2,)"), "12345678", 4), 6, "4.0 is unknown");
  expect_refused(npy(header("<i3", "(2,)"), ""), 20, "'<i3' cannot be read");
  expect_refused(npy(header("|i4", "(2,)"), ""), 20, "cannot be read");
  expect_refused(npy(header("<U8", "(2,)"), ""), 20, "cannot be read");
  expect_refused(npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,)}", "1234"), 20, "records");
  expect_refused(npy(header("<i4", "(-2,)"), ""), 61, "expected a length");
  expect_refused(npy(header("<i4", "(2)"), "12345678"), 63, "must be a tuple");
  expect_refused(npy(header("<i4", "(4611686018427387904, 4)"), ""), 88, "too large");
  expect_refused(npy(header("<i4", "(4611686018427387904, 4611686018427387904, 0)"), ""), 109, "too large");
  expect_refused(npy(header("<i1", "(9223372036854775807,)"), ""), 86, "too large");
  expect_refused(npy("{'descr': '<i4', 'descr': '<i4'}", ""), 27, "once");
  expect_refused(npy("{'descr': '<i4', 'shape': (1,)}", "1234"), 41, "lacks one");
  expect_refused(npy("{'descr': '<i4', 'fortran_order': 0, 'shape': (1,)}", "1234"), 44, "True or False");
  expect_refused(npy(header("<i4", "(2,)") + "x", "12345678"), 68, "has trailing characters");
}

TEST(Npy, RefusesAFileThatIsCutAnywhere) {
  for (const bool rows : {false, true}) {
    const auto good = npy(header("<i4", "(2,)"), "12345678", 2);
    for (size_t length = 0; length < good.size(); ++length) {
      const auto path = write_file("cut.npy", good.substr(0, length));
      EXPECT_THROW(rows ? (void)tw::NpyFile(path) : (void)tw::read_npy(path), tw::FileError) << length;
    }
  }
}

}  // namespace npy_test
