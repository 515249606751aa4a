// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/models/resnet.hpp>

namespace tw::models {
namespace {

torch::nn::Conv2d unbiased_conv3x3(int64_t in, int64_t out, int64_t stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false));
}

/// Two convolutions and a shortcut around them.
class BlockImpl : public torch::nn::Module {
 public:
  BlockImpl(int64_t in, int64_t out, int64_t stride) {
    conv1_ = register_module("conv1", unbiased_conv3x3(in, out, stride));
    norm1_ = register_module("norm1", torch::nn::BatchNorm2d(out));
    conv2_ = register_module("conv2", unbiased_conv3x3(out, out, 1));
    norm2_ = register_module("norm2", torch::nn::BatchNorm2d(out));
    if (in == out && stride == 1) return;
    around_ = register_module("around", torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 1).stride(stride).bias(false)));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor through = norm2_(conv2_(norm1_(conv1_(x)).relu()));
    return (through + (around_.is_empty() ? x : around_(x))).relu();
  }

 private:
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::Conv2d conv2_{nullptr};
  torch::nn::Conv2d around_{nullptr};
  torch::nn::BatchNorm2d norm1_{nullptr};
  torch::nn::BatchNorm2d norm2_{nullptr};
};
TORCH_MODULE(Block);

}  // namespace

ResNetImpl::ResNetImpl(int64_t blocks, int64_t classes) {
  TW_EXPECTS(blocks > 0, "ResNet needs at least one block per stage, got ", blocks);
  conv_ = register_module("conv", unbiased_conv3x3(1, 16, 1));
  norm_ = register_module("norm", torch::nn::BatchNorm2d(16));
  blocks_ = register_module("blocks", torch::nn::ModuleList());
  int64_t maps = 16;
  for (const int64_t out : {16, 32, 64}) {
    for (int64_t block = 0; block < blocks; ++block) {
      blocks_->push_back(Block(maps, out, maps == out ? 1 : 2));
      maps = out;
    }
  }
  output_ = register_module("output", torch::nn::Linear(maps, classes));
}

torch::Tensor ResNetImpl::forward(torch::Tensor x) {
  TW_EXPECTS(x.dim() == 4 && x.size(1) == 1, "ResNet expects inputs [n, 1, height, width], got ", x.sizes());
  x = norm_(conv_(x)).relu();
  for (const auto& block : *blocks_) x = block->as<BlockImpl>()->forward(x);
  return output_(x.mean({2, 3}));
}

}  // namespace tw::models
