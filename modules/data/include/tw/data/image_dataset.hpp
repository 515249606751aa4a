// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <tw/data/dataset.hpp>

namespace tw {

/// Grayscale images with one label each, held in memory as bytes. A batch holds float32 inputs [n, 1, height, width], from -1 (black) to 1 (white),
/// and int64 targets [n].
class ImageDataset : public Dataset {
 public:
  /// @param images uint8 [n, height, width]; @param labels uint8 [n], each below `classes`.
  /// @throws ContractError for wrong shapes or dtypes, or if a label is not below `classes`; the message then names the first such row.
  ImageDataset(at::Tensor images, at::Tensor labels, int64_t classes);

  int64_t size() const override { return labels_.size(0); }
  int64_t classes() const noexcept { return classes_; }
  /// uint8 [n]
  const at::Tensor& labels() const noexcept { return labels_; }
  int64_t height() const { return images_.size(1); }
  int64_t width() const { return images_.size(2); }
  Batch batch(std::span<const int64_t> indices) const override;
  std::vector<at::Tensor> memory() const override { return {images_, labels_}; }

 private:
  at::Tensor images_;
  at::Tensor labels_;
  int64_t classes_;
};

/// Reads one split of a directory in MNIST's layout, whose files {train,t10k}-{images-idx3,labels-idx1}-ubyte are plain or gzipped (.gz).
/// @throws FileError naming the file and the offset of the error.
ImageDataset load_mnist(const std::filesystem::path& directory, Split split);

}  // namespace tw
