// SPDX-License-Identifier: Apache-2.0
// The C++ side of python_reads.sh: program write FILE, program read FILE.
#include <torch/torch.h>

#include <iostream>
#include <tw/base/error.hpp>
#include <tw/tensor.hpp>

namespace {

std::vector<tw::NamedTensor> tensors() {
  std::vector<tw::NamedTensor> all;
  for (const auto type : {torch::kBool, torch::kByte, torch::kChar, torch::kShort, torch::kInt, torch::kLong, torch::kHalf, torch::kFloat,
                          torch::kDouble, torch::kComplexFloat}) {
    const at::Tensor numbers = torch::arange(6).reshape({2, 3});
    all.push_back({tw::dtype_name(type), (type == torch::kBool ? numbers.remainder(2) : numbers).to(type)});
  }
  all.push_back({"scalar", torch::tensor(2.5, torch::kDouble)});
  all.push_back({"empty", torch::zeros({0, 4})});
  return all;
}

void check(const tw::SafetensorsFile& file) {
  if (file.metadata() != std::map<std::string, std::string>{{"note", "from Python"}}) throw tw::Error("other metadata");
  for (const tw::NamedTensor& tensor : tensors()) {
    const at::Tensor found = file.tensor(tensor.name);
    if (found.scalar_type() != tensor.tensor.scalar_type() || !found.equal(tensor.tensor)) throw tw::Error("other values: " + tensor.name);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3) throw tw::Error("usage: safetensors_program write|read FILE");
    if (std::string(argv[1]) == "write") {
      tw::write_safetensors(argv[2], tensors(), {{"note", "from C++"}});
    } else {
      check(tw::SafetensorsFile(argv[2]));
      std::cout << "both ways" << std::endl;
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
