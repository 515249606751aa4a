// SPDX-License-Identifier: Apache-2.0
#include "half_arithmetic.hpp"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/file.hpp>
#include <tw/base/text_stream.hpp>

namespace tw::tool {
namespace {

std::string of_type(const std::string& type, const std::string& instructions) {
  return instructions.empty() ? "no instructions for " + type : concat(type, " by ", instructions);
}

}  // namespace

HalfArithmetic half_arithmetic_in(const std::string& cpuinfo) {
  std::set<std::string> flags;
  TextReader lines(cpuinfo);
  for (std::string line; flags.empty() && std::getline(lines, line);) {
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;  // of the first core, on x86 and on Arm
    TextReader words(line.substr(std::min(line.size(), line.find(':') + 1)));
    for (std::string word; words >> word;) flags.insert(word);
  }
  const auto first_of = [&](std::initializer_list<const char*> names) -> std::string {
    for (const char* name : names) {
      if (flags.contains(name)) return name;
    }
    return "";
  };
  return {.bfloat16 = first_of({"amx_bf16", "avx512_bf16", "bf16"}), .float16 = first_of({"amx_fp16", "avx512_fp16", "asimdhp"})};
}

HalfArithmetic half_arithmetic() { return half_arithmetic_in(read_file("/proc/cpuinfo")); }

std::string describe(const HalfArithmetic& processor) {
  return concat(of_type("bfloat16", processor.bfloat16), "; ", of_type("float16", processor.float16));
}

std::string why_slow(ComputeType compute, const HalfArithmetic& processor) {
  const bool is_bfloat16 = compute == ComputeType::bfloat16;
  if (compute == ComputeType::float32 || !(is_bfloat16 ? processor.bfloat16 : processor.float16).empty()) return "";
  return concat("precision.compute = \"", is_bfloat16 ? "bfloat16" : "float16",
                "\" is several times slower than \"float32\" on this processor, which has no instructions for it");
}

std::string why_slow(ComputeType compute) {
  return compute == ComputeType::float32 ? "" : why_slow(compute, half_arithmetic());  // /proc may be missing
}

}  // namespace tw::tool
