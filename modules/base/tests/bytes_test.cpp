// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <tw/base/bytes.hpp>

namespace bytes_test {

struct Point {
  int64_t x = 0;
  double y = 0;
  bool operator==(const Point&) const = default;
};

/// Of every kind of field.
struct Shape {
  std::string name;
  std::vector<int64_t> sizes;
  std::vector<std::string> labels;
  Point origin;
  std::vector<Shape> parts;
  bool closed = false;
  static constexpr auto fields = std::tuple(&Shape::name, &Shape::sizes, &Shape::labels, &Shape::origin, &Shape::parts, &Shape::closed);
  bool operator==(const Shape&) const = default;
};

const Shape shape{.name = std::string("a\0b", 3),
                  .sizes = {1, -2},
                  .labels = {"", "two words\n"},
                  .origin = {3, 0.1},
                  .parts = {{.name = "inner", .sizes = {}, .labels = {"x"}, .origin = {}, .parts = {}, .closed = true}, Shape()},
                  .closed = true};

TEST(Bytes, AreReadAsTheyWereWritten) {
  const std::string text = tw::packed(shape);
  tw::ByteReader reader(text);
  EXPECT_EQ(reader.get<Shape>(), shape);
  EXPECT_TRUE(reader.is_good());
  EXPECT_TRUE(reader.at_end());
}

TEST(Bytes, TextsAndListsBeginWithTheirSizes) {
  tw::Bytes bytes;
  tw::put(bytes, std::string("ab"));
  tw::put(bytes, std::vector<uint8_t>{7});
  tw::put(bytes, uint8_t{9});
  const auto b = [](int value) { return static_cast<std::byte>(value); };
  EXPECT_EQ(bytes, (tw::Bytes{b(2), b(0), b(0), b(0), b('a'), b('b'), b(1), b(0), b(0), b(0), b(7), b(9)}));
}

TEST(Bytes, WhatIsCutOffFails) {
  const std::string text = tw::packed(shape);
  for (size_t size = 0; size < text.size(); ++size) {
    tw::ByteReader reader(std::string_view(text).substr(0, size));
    (void)reader.get<Shape>();
    EXPECT_FALSE(reader.is_good()) << size;
    EXPECT_EQ(reader.get<uint8_t>(), 0) << "and so does all that follows";
  }
}

}  // namespace bytes_test
