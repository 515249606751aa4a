// SPDX-License-Identifier: Apache-2.0
#include "message_of.hpp"

#include <gtest/gtest.h>

#include <tw/base/error.hpp>
#include <tw/state/index.hpp>

namespace index_test {

tw::CheckpointIndex example() {
  tw::CheckpointIndex index;
  index.step = 42;
  index.metadata = R"({"epoch": 3, "note": "a \"quoted\" ü"})";
  index.files = {{.bytes = 1234, .checksum = 0x00ab'cdef'0123'4567}, {.bytes = 7, .checksum = 1}};
  index.tensors = {{{"conv.weight", {4, 3}, c10::ScalarType::Float},
                    {"tied.weight"},
                    tw::ShardKind::parameter,
                    tw::OnReshard::shard,
                    {{0, "conv.weight[0:2, 0:3]", {{0, 0}, {2, 3}}}, {1, "conv.weight[2:4, 0:3]", {{2, 0}, {2, 3}}}}},
                   {{"step", {}, c10::ScalarType::Long}, {}, tw::ShardKind::counter, tw::OnReshard::mean, {{0, "step", {}}, {1, "step", {}}}}};
  return index;
}

std::string body_of(const std::string& text) {
  const std::string marker = "\"index\":";
  const size_t begin = text.find(marker) + marker.size();
  return text.substr(begin, text.size() - begin - 2);
}

std::string error_of(const std::string& body) {
  return tw::testing::message_of<tw::FileError>([&] { (void)tw::parse_index_body(body, "f"); });
}

std::string replace(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Index, ComesBackAsItWas) {
  const tw::CheckpointIndex index = example();
  const tw::CheckpointIndex back = tw::parse_index(tw::to_text(index), "f");
  EXPECT_EQ(back.step, 42);
  EXPECT_EQ(back.metadata, index.metadata);
  ASSERT_EQ(back.files.size(), 2U);
  EXPECT_EQ(back.files[0].checksum, index.files[0].checksum);
  EXPECT_EQ(back.files[0].bytes, 1234);
  ASSERT_EQ(back.tensors.size(), 2U);
  EXPECT_EQ(back.tensors[0].pieces, index.tensors[0].pieces);
  EXPECT_EQ(back.tensors[0].aliases, index.tensors[0].aliases);
  EXPECT_EQ(back.tensors[1].spec.describe(), "step int64 []");
  EXPECT_EQ(back.tensors[1].on_reshard, tw::OnReshard::mean);
  EXPECT_EQ(tw::to_text(back), tw::to_text(index));
  EXPECT_EQ(tw::file_name(3), "rank_0003.safetensors");
}

// The number of the format stays: older readers ignore the names of layers, and files without stacks do not have them.
TEST(Index, KeepsNamesOfLayers) {
  tw::CheckpointIndex index = example();
  EXPECT_EQ(tw::to_text(index).find("layers"), std::string::npos);
  index.tensors[0].layers = "1.{}.weight";
  const std::string text = tw::to_text(index);
  EXPECT_NE(text.find(R"("version":1)"), std::string::npos);
  const tw::CheckpointIndex back = tw::parse_index(text, "f");
  EXPECT_EQ(back.tensors[0].layers, "1.{}.weight");
  EXPECT_EQ(back.tensors[1].layers, "");
  const std::string body = body_of(text);
  EXPECT_NE(error_of(replace(body, "1.{}.weight", "1.weight")).find("without {} for their number"), std::string::npos);
  EXPECT_NE(error_of(replace(body, "\"1.{}.weight\"", "1")).find("\"layers\" is not a string"), std::string::npos);
  index.tensors[1].layers = "{}.step";
  EXPECT_NE(error_of(body_of(tw::to_text(index))).find("step has no dimension along which layers could lie"), std::string::npos);
}

TEST(Index, FindsAnyFlippedByteAndAnyCut) {
  const std::string good = tw::to_text(example());
  for (size_t at = 0; at < good.size(); ++at) {
    EXPECT_THROW((void)tw::parse_index(good.substr(0, at), "f"), tw::FileError) << at;
    for (int mask = 1; mask < 256; mask *= 2) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ mask);
      EXPECT_THROW((void)tw::parse_index(bad, "f"), tw::FileError) << at;
    }
  }
  EXPECT_THROW((void)tw::parse_index(good + "\n", "f"), tw::FileError);
}

TEST(Index, NamesWhatContradictsItself) {
  const std::string body = body_of(tw::to_text(example()));
  EXPECT_EQ(error_of(body), "nothing thrown");
  EXPECT_NE(error_of("{").find("not JSON"), std::string::npos);
  EXPECT_NE(error_of("[]").find("there is no \"format\""), std::string::npos);
  EXPECT_NE(error_of(replace(body, "\"version\":1", "\"version\":2")).find("has version 2"), std::string::npos);
  EXPECT_NE(error_of(replace(body, "\"step\":42", "\"step\":-1")).find("\"step\" is not an integer of at least 0"), std::string::npos);
  EXPECT_NE(error_of(replace(body, "\"file\":1", "\"file\":2")).find("lies in file 2, but there are 2 files"), std::string::npos);
  EXPECT_NE(error_of(replace(body, "\"offsets\":[2,0]", "\"offsets\":[1,0]")).find("overlap"), std::string::npos);
  EXPECT_NE(error_of(replace(body, "\"lengths\":[2,3]", "\"lengths\":[1,3]")).find("cover 9 of 12"), std::string::npos);
  EXPECT_NE(error_of(replace(body, "[4,3]", "[4294967296,4294967296]")).find("too large"), std::string::npos);
  EXPECT_NE(error_of(replace(body, "float32", "float31")).find("\"float31\", which is unknown"), std::string::npos);
  EXPECT_NE(error_of(replace(body, "rank_0001", "../../etc")).find("is not called rank_0001"), std::string::npos);
  EXPECT_NE(error_of(replace(body, "\"00abcdef01234567\"", "\"xyz\"")).find("not a checksum"), std::string::npos);
  EXPECT_NE(error_of(replace(body, "\"offsets\":[", "\"offsets\":[0,")).find("offsets and"), std::string::npos);
  EXPECT_NE(error_of(replace(body, "\"name\":\"step\"", "\"name\":\"conv.weight\"")).find("two tensors are called"), std::string::npos);
}

// With a valid checksum, arbitrary damage must be read or rejected without a crash.
TEST(Index, SurvivesEveryDamage) {
  const std::string good = body_of(tw::to_text(example()));
  for (size_t at = 0; at < good.size(); ++at) {
    for (int byte = 0; byte < 256; byte += 5) {
      std::string bad = good;
      bad[at] = static_cast<char>(byte);
      (void)error_of(bad);
    }
    (void)error_of(good.substr(0, at));
  }
}

}  // namespace index_test
