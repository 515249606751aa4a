// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <fstream>
#include <tw/tensor.hpp>

namespace safetensors_test {

using tw::NamedTensor;

std::filesystem::path file(const std::string& name) { return std::filesystem::path(testing::TempDir()) / ("tw_safetensors_" + name); }

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string with_length(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

std::vector<NamedTensor> one_of_each_type() {
  std::vector<NamedTensor> tensors;
  for (const auto type : {torch::kBool, torch::kByte, torch::kChar, torch::kShort, torch::kInt, torch::kLong, torch::kHalf, torch::kBFloat16,
                          torch::kFloat, torch::kDouble, torch::kComplexFloat, torch::kComplexDouble, torch::kUInt16, torch::kUInt32, torch::kUInt64,
                          torch::kFloat8_e5m2, torch::kFloat8_e4m3fn}) {
    tensors.push_back({tw::dtype_name(type), torch::randint(0, 2, {2, 3}).to(type)});
  }
  tensors.push_back({"complex pairs", torch::complex(torch::randn({4}, torch::kDouble), torch::randn({4}, torch::kDouble))});
  tensors.push_back({"scalar", torch::tensor(7L)});
  tensors.push_back({"empty", torch::zeros({0, 5})});
  tensors.push_back({"strided", torch::arange(12, torch::kFloat).reshape({3, 4}).t()});
  tensors.push_back({"näme \"quoted\"\n", torch::ones({1}, torch::kByte)});
  tensors.push_back({"requires grad", torch::randn({2}, torch::requires_grad())});
  tensors.push_back({"conjugated", torch::complex(torch::ones({2}), torch::ones({2})).conj()});
  return tensors;
}

TEST(Safetensors, GivesBackEveryTypeAndShape) {
  const auto tensors = one_of_each_type();
  tw::write_safetensors(file("types"), tensors, {{"format", "pt"}, {"note", "x"}});
  const tw::SafetensorsFile read(file("types"));
  EXPECT_EQ(read.metadata(), (std::map<std::string, std::string>{{"format", "pt"}, {"note", "x"}}));
  EXPECT_EQ(read.names().size(), tensors.size());
  for (const NamedTensor& tensor : tensors) {
    EXPECT_EQ(read.spec(tensor.name).describe(), tensor.spec().describe());
    const at::Tensor back = read.tensor(tensor.name);
    EXPECT_EQ(back.scalar_type(), tensor.tensor.scalar_type()) << tensor.name;
    if (c10::isBarebonesUnsignedType(back.scalar_type()) || c10::isFloat8Type(back.scalar_type())) {  // types without equal()
      EXPECT_TRUE(back.to(torch::kFloat).equal(tensor.tensor.to(torch::kFloat))) << tensor.name;
      continue;
    }
    EXPECT_TRUE(back.equal(tensor.tensor)) << tensor.name;
  }
  EXPECT_THROW((void)read.tensor("absent"), tw::FileError);
}

TEST(Safetensors, WritesWhatTheFormatSays) {
  tw::write_safetensors(file("bytes"), {{"w", torch::tensor({1, 2}, torch::kShort)}});
  std::string header = R"({"w":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}})";
  header.resize(56, ' ');  // with the length field, a multiple of 64
  EXPECT_EQ(read_bytes(file("bytes")), with_length(header, std::string("\x01\x00\x02\x00", 4)));
}

TEST(Safetensors, RefusesWhatLiesElsewhereAndLeavesTheFile) {
  tw::write_safetensors(file("elsewhere"), {{"w", torch::ones({3})}});
  const std::string before = read_bytes(file("elsewhere"));
  for (const at::Tensor& other : {torch::ones({3}, torch::kMeta), torch::ones({3}).to_sparse()}) {
    EXPECT_THROW(tw::write_safetensors(file("elsewhere"), {{"w", torch::ones({3})}, {"x", other}}), tw::ContractError);
    EXPECT_EQ(read_bytes(file("elsewhere")), before);
  }
}

TEST(Safetensors, RefusesATensorThatIsNotTheOneItPlannedFor) {
  std::filesystem::remove(file("planned"));
  const std::vector<tw::TensorSpec> planned{{"w", {3}, torch::kFloat}};
  const auto write = [&](const at::Tensor& tensor) { tw::write_safetensors(file("planned"), planned, [&](size_t) { return tensor; }); };
  EXPECT_THROW(write(torch::ones({4})), tw::ContractError);
  EXPECT_THROW(write(torch::ones({3}, torch::kInt)), tw::ContractError);
  EXPECT_FALSE(std::filesystem::exists(file("planned")));
  write(torch::ones({3}));
  EXPECT_TRUE(tw::SafetensorsFile(file("planned")).tensor("w").equal(torch::ones({3})));
}

TEST(Safetensors, ReadsPartsOfATensor) {
  const auto whole = torch::arange(24, torch::kInt).reshape({2, 3, 4});
  tw::write_safetensors(file("parts"), {{"w", whole}});
  const tw::SafetensorsFile read(file("parts"));
  const auto part = torch::zeros({2, 2, 2}, torch::kInt).transpose(0, 2);
  read.read_into("w", {0, 1, 2}, part);
  EXPECT_TRUE(part.equal(whole.slice(1, 1, 3).slice(2, 2, 4)));
  EXPECT_THROW(read.read_into("w", {0, 2, 2}, part), tw::ContractError);
  EXPECT_THROW(read.read_into("w", {-1, 1, 2}, part), tw::ContractError);
  EXPECT_THROW(read.read_into("w", {0, 1}, part), tw::ContractError);
  EXPECT_THROW(read.read_into("w", {0, 1, 2}, part.to(torch::kLong)), tw::ContractError);
}

TEST(Safetensors, RefusesWhatItCannotWrite) {
  const auto one = torch::ones({1});
  EXPECT_THROW(tw::write_safetensors(file("bad"), {{"w", one}, {"w", one}}), tw::ContractError);
  EXPECT_THROW(tw::write_safetensors(file("bad"), {{"__metadata__", one}}), tw::ContractError);
  EXPECT_THROW(tw::write_safetensors(file("bad"), {{"\xff", one}}), tw::ContractError);
  EXPECT_THROW(tw::write_safetensors(file("bad"), {{"w", one.to(torch::kComplexHalf)}}), tw::ContractError);
  EXPECT_THROW(tw::write_safetensors(file("no/such/folder"), {{"w", one}}), tw::FileError);
  EXPECT_THROW(tw::write_safetensors("/dev/full", {{"w", one}}), tw::FileError);
}

void expect_error(const std::string& bytes, int64_t offset, const std::string& problem) {
  try {
    (void)tw::parse_safetensors(bytes, "f");
    ADD_FAILURE() << "no exception for " << problem;
  } catch (const tw::FileError& error) {
    EXPECT_EQ(error.offset(), offset) << error.what();
    EXPECT_NE(std::string(error.what()).find(problem), std::string::npos) << error.what();
  }
}

TEST(Safetensors, NamesTheOffsetOfWhatIsWrong) {
  const auto u8 = [](const std::string& name, const std::string& shape, const std::string& offsets) {
    return "\"" + name + R"(":{"dtype":"U8","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  };
  expect_error("", 0, "ends here, 8 bytes early");
  expect_error("1234567", 7, "ends here, 1 bytes early");
  expect_error(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), 0, "18446744073709551615 bytes, but only 2 follow");
  expect_error(with_length("", ""), 8, "does not begin with {");
  expect_error(with_length("[]", ""), 8, "does not begin with {");
  expect_error(with_length("{\"a\":}", ""), 13, "not JSON");
  expect_error(with_length("{\"a\xff\":1}", ""), 11, "not JSON");
  expect_error(with_length("{" + u8("a", "[1]", "[0,1]") + "," + u8("a", "[1]", "[0,1]") + "}", "x"), 9, "occurs twice");
  expect_error(with_length("{" + u8("a", "[2]", "[0,2]") + "," + u8("b", "[2]", "[1,3]") + "}", "xyz"), 61, "inside the tensor before it");
  expect_error(with_length("{" + u8("a", "[1]", "[0,1]") + "," + u8("b", "[1]", "[2,3]") + "}", "xyz"), 61, "after a hole");
  expect_error(with_length("{" + u8("a", "[1]", "[0,1]") + "}", "xyz"), 62, "the tensors end here");
  expect_error(with_length("{" + u8("a", "[3]", "[0,2]") + "}", "xy"), 9, "its shape needs 3 bytes");
  expect_error(with_length("{" + u8("a", "[3]", "[0,3]") + "}", "xy"), 9, "do not lie in the 2 bytes");
  expect_error(with_length("{" + u8("a", "[1]", "[1,0]") + "}", "x"), 9, "do not lie in");
  expect_error(with_length("{" + u8("a", "[-1]", "[0,1]") + "}", "x"), 9, "array of sizes");
  expect_error(with_length("{" + u8("a", "[1.5]", "[0,1]") + "}", "x"), 9, "array of sizes");
  expect_error(with_length("{" + u8("a", "[18446744073709551615]", "[0,1]") + "}", "x"), 9, "array of sizes");
  expect_error(with_length("{" + u8("a", "[4294967296,4294967296]", "[0,1]") + "}", "x"), 9, "too large");
  expect_error(with_length("{" + u8("a", "[0,4294967296,4294967296]", "[0,0]") + "}", ""), 9, "too large");
  expect_error(with_length(R"({"a":{"dtype":4,"shape":[1],"data_offsets":[0,1]}})", "x"), 9, "dtype must be text");
  expect_error(with_length(R"({"a":{"dtype":"U8","shape":[1]}})", "x"), 9, "must have dtype");
  expect_error(with_length(R"({"a":7})", ""), 9, "must have dtype");
  expect_error(with_length(R"({"__metadata__":{"a":1}})", ""), 25, "metadata must be text");
  expect_error(with_length(R"({"__metadata__":{"torchweave.complex128":"[\"a\"]"}})", ""), 25, "there is no tensor a");
  expect_error(with_length(R"({"__metadata__":{"torchweave.complex128":"7"}})", ""), 25, "must list names");
}

TEST(Safetensors, ReadsTheOthersWhereADtypeIsNotSupported) {
  std::ofstream(file("f4"), std::ios::binary) << with_length(
      R"({"a":{"dtype":"F4","shape":[6],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})", "xxx\x01\x02");
  const tw::SafetensorsFile read(file("f4"));
  EXPECT_EQ(read.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(read.tensor("b").equal(torch::tensor({1, 2}, torch::kByte)));
  try {
    (void)read.tensor("a");
    ADD_FAILURE() << "no exception";
  } catch (const tw::FileError& error) {
    EXPECT_NE(std::string(error.what()).find("tensor a: dtype \"F4\" is not supported"), std::string::npos) << error.what();
  }
}

// A quadratic implementation took minutes for this number.
TEST(Safetensors, TimeIsLinearInTheTensors) {
  constexpr int64_t many = 20000;
  const at::Tensor one = torch::ones({1});
  std::vector<NamedTensor> tensors;
  for (int64_t i = 0; i < many; ++i) tensors.push_back({tw::concat("layers.", i, ".weight"), one});
  tensors.push_back({"complex", one.to(torch::kComplexDouble)});
  tw::write_safetensors(file("many"), tensors);
  const std::clock_t begin = std::clock();
  EXPECT_EQ(tw::SafetensorsFile(file("many")).names().size(), tensors.size());
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 2);  // seconds; takes about 0.1
}

// Every damaged file is refused or read, and reading ends.
TEST(Safetensors, SurvivesEveryDamage) {
  const auto path = file("damaged");
  tw::write_safetensors(path, one_of_each_type(), {{"a", "b"}});
  const std::string good = read_bytes(path);
  (void)tw::parse_safetensors(good, path);
  for (size_t size = 0; size < good.size(); ++size) EXPECT_THROW((void)tw::parse_safetensors(good.substr(0, size), path), tw::FileError) << size;
  EXPECT_THROW((void)tw::parse_safetensors(good + "x", path), tw::FileError);
  size_t refused = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    for (const char mask : {'\x01', '\x20', '\x80'}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ mask);
      try {
        for (const auto& entry : tw::parse_safetensors(bad, path).entries) {
          ASSERT_LE(entry.offset + entry.bytes, static_cast<int64_t>(bad.size()));
        }
      } catch (const tw::FileError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, good.size());
}

TEST(Safetensors, RefusesFilesThatAreNone) {
  EXPECT_THROW(tw::SafetensorsFile(file("does_not_exist")), tw::FileError);
  EXPECT_THROW(tw::SafetensorsFile{testing::TempDir()}, tw::FileError);
  std::ofstream(file("no_file"), std::ios::binary).flush();
  EXPECT_THROW(tw::SafetensorsFile(file("no_file")), tw::FileError);
  std::ofstream(file("bool"), std::ios::binary) << with_length(R"({"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", "\x01\x02");
  try {
    (void)tw::SafetensorsFile(file("bool")).tensor("a");
    ADD_FAILURE() << "no exception";
  } catch (const tw::FileError& error) {
    EXPECT_EQ(error.offset(), 8 + 55 + 1) << error.what();
  }
}

TEST(Safetensors, ReadsTensorsThatAreNotAligned) {
  const float value = 1.5;
  std::string data = "x";
  data.append(reinterpret_cast<const char*>(&value), sizeof value);
  std::ofstream(file("odd"), std::ios::binary) << with_length(
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[],"data_offsets":[1,5]}})", data);
  const tw::SafetensorsFile read(file("odd"));
  EXPECT_EQ(read.tensor("b").item<float>(), value);
  EXPECT_EQ(read.names(), (std::vector<std::string>{"a", "b"}));
}

TEST(NamedShard, WholeCoversTheTensor) {
  const auto shard = tw::whole("w", torch::ones({2, 3}), tw::ShardKind::buffer);
  EXPECT_EQ(shard.global_shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(shard.offsets, (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(shard.on_reshard, tw::OnReshard::replicate);
  EXPECT_EQ(tw::name_of(shard.kind), "buffer");
}

}  // namespace safetensors_test
