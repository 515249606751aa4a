// SPDX-License-Identifier: Apache-2.0
#include "files.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <tw/data.hpp>

namespace csv_test {

using tw::testing::expect_file_error;
using tw::testing::write_file;
using Names = std::vector<std::string>;

tw::CsvTable read(const std::string& text, const tw::CsvOptions& options = {}) { return tw::read_csv(write_file("table.csv", text), options); }

void expect_refused(const std::string& text, int64_t offset, const std::string& problem, const tw::CsvOptions& options = {}) {
  expect_file_error([&] { read(text, options); }, "table.csv", offset, problem);
}

TEST(Csv, ReadsNumbersWithAndWithoutHeader) {
  const auto expected = torch::tensor({1.0, 2.5, -3e-5, 4.0}, torch::kDouble).reshape({2, 2});
  const auto plain = read("1,2.5\n-3e-5,4\n");
  EXPECT_TRUE(plain.values.equal(expected));
  EXPECT_TRUE(plain.columns.empty());
  const auto named = read("x,\"a \"\"quoted\"\", name\"\r\n1,+2.5\r\n\r\n -3e-5 ,\"4\"");
  EXPECT_TRUE(named.values.equal(expected));
  EXPECT_EQ(named.columns, (Names{"x", "a \"quoted\", name"}));
  EXPECT_TRUE(read("\xEF\xBB\xBF"
                   "1;2.5\n-3e-5;4",
                   {.delimiter = ';'})
                  .values.equal(expected));
  EXPECT_EQ(read("x,y\n").values.sizes(), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(read("1\t2\n", {.delimiter = '\t'}).values.sizes(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(read("2020,2021\n1,2\n", {.header = tw::CsvHeader::present}).columns, (Names{"2020", "2021"}));
}

TEST(Csv, ReadsTheNearestDouble) {
  const auto values = read("0.1,1e308,4.9e-324,123456789012345678,nan,-inf\n").values;
  const double* value = values.data_ptr<double>();
  EXPECT_EQ(value[0], 0.1);
  EXPECT_EQ(value[1], 1e308);
  EXPECT_EQ(value[2], 4.9e-324);
  EXPECT_EQ(value[3], 123456789012345678.0);
  EXPECT_TRUE(std::isnan(value[4]));
  EXPECT_EQ(value[5], -INFINITY);
}

TEST(Csv, NamesTheFieldThatMakesTheFirstLineDoubtful) {
  expect_refused("1,NA,2\n3,4,5\n", 0, "line 1, column 2 is not a number: 'NA', and 2 of the 3 fields are numbers");
  expect_refused("1,,2\n3,4,5\n", 0, "column 2 is empty");
  expect_refused("1,True\n3,4\n", 0, "column 2 is not a number: 'True'");
  expect_refused("1,1e400\n3,4\n", 0, "column 2 does not fit into a float64: '1e400'");
  expect_refused("NA\n3\n", 0, "column 1 is not a number: 'NA', which looks like a value; set whether this line is a header");
  expect_refused("1,5;2,5\n", 0, "column 1 is not a number: '1,5', which looks like a value", {.delimiter = ';'});
  expect_refused("1;2\n3;4\n", 0, "column 1 is not a number: '1;2', which looks like a value");
  EXPECT_EQ(read("NA,x\n1,2\n", {.header = tw::CsvHeader::present}).columns, (Names{"NA", "x"}));
}

TEST(Csv, WarnsOfAFirstLineThatCountsItsColumns) {
  const auto warning_of = [](const std::string& text, const tw::CsvOptions& options) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(read(text, options).values.size(1), 3);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_NE(warning_of("0,1,2\n7,8,9\n", {}).find("line 1 numbers its columns from 0"), std::string::npos);
  EXPECT_EQ(warning_of("0,1,2\n7,8,9\n", {.header = tw::CsvHeader::present}), "");
  EXPECT_EQ(warning_of("0,1,3\n7,8,9\n", {}), "");
}

TEST(Csv, KeepsRowsOfEmptyFieldsWhereBlanksSeparate) {
  expect_refused("1\t2\n\t\n3\t4\n", 4, "line 2, byte 4: column 1 is empty", {.delimiter = '\t'});
  EXPECT_EQ(read("1\t2\n  \n3\t4\n", {.delimiter = '\t'}).values.size(0), 2);
}

TEST(Csv, RefusesDelimitersThatOccurInNumbers) {
  for (const char delimiter : {'"', '.', '5', '-', '+', 'e', '\n', '\r', '\0'}) {
    EXPECT_THROW(read("1\n", {.delimiter = delimiter}), tw::ContractError) << delimiter;
  }
}

TEST(Csv, NamesEveryMalformedRow) {
  expect_refused("", 0, "neither a header nor numbers");
  expect_refused("x,y\n1,2\n3\n4,5\n6,z7\n", 8,
                 "2 rows are malformed:\n  line 3, byte 8: 1 fields, but 2 are expected\n  line 5, byte 16: column 2 is not a number: 'z7'");
  expect_refused("1,2\n3,\n", 6, "line 2, byte 6: column 2 is empty");
  expect_refused("1,2\n3,1e999\n", 6, "does not fit into a float64");
  expect_refused("1,2\n3,0x10\n", 6, "is not a number");
  expect_refused("1,2\n3,1 2\n", 6, "is not a number");
  expect_refused("1,2\n3,+-2\n", 6, "is not a number");
  expect_refused("1,x\n2,3\n", 0, "line 1, column 2 is not a number: 'x', and 1 of the 2 fields are numbers; set whether this line is a header");
  expect_refused("1,x\n2,3\n", 2, "column 2 is not a number", {.header = tw::CsvHeader::absent});
  expect_refused("1,2\n\"3,4\n", 4, "is not a number");  // an unterminated quote
  std::string many = "1\n";
  for (int i = 0; i < 25; ++i) many += "bad\n";
  expect_refused(many, 2, "25 rows are malformed");
  expect_refused(many, 2, "line 21, byte 78");
  expect_refused(many, 2, "and 5 more");
  EXPECT_THROW(tw::read_csv("/does/not/exist.csv"), tw::FileError);
}

}  // namespace csv_test
