"""Writes vision models as TorchScript files, scripted and traced, small, in float64, without dropout.

export_models.py DIR: DIR/NAME.{scripted,traced}.pt, and DIR/inputs.txt, a line each: file, height and width of its images.
"""
import re
import sys
import warnings

import torch

operators = torch.library.Library("torchvision", "FRAGMENT")
while True:
    try:
        import torchvision
        break
    except RuntimeError as error:  # a torchvision for another device than torch's lacks operators of its own, which no model here uses
        missing = re.search(r"operator torchvision::(\w+) does not exist", str(error))
        if not missing:
            raise
        operators.define(f"{missing.group(1)}(Tensor unused) -> Tensor")
        for name in [each for each in sys.modules if each.startswith("torchvision")]:
            del sys.modules[name]

warnings.filterwarnings("ignore")
models = torchvision.models


def small_vgg():
    net = models.vgg11_bn(num_classes=10)
    net.classifier = torch.nn.Sequential(torch.nn.Linear(512 * 49, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    return net


def swin():
    return models.SwinTransformer(patch_size=[4, 4], embed_dim=16, depths=[2, 2], num_heads=[2, 2], window_size=[4, 4], stochastic_depth_prob=0.0, num_classes=10)


def vit():
    return models.VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64, num_classes=10)


def densenet():
    return models.DenseNet(growth_rate=8, block_config=(2, 3, 2), num_init_features=16, num_classes=10)


both, one = ("scripted", "traced"), ("traced",)
zoo = {
    "resnet18": (lambda: models.resnet18(num_classes=10), 40, both),
    "densenet": (densenet, 40, both),
    "inception_v3": (lambda: models.inception_v3(num_classes=10, aux_logits=False, init_weights=False), 75, both),
    "vgg11_bn": (small_vgg, 32, both),
    "mobilenet_v2": (lambda: models.mobilenet_v2(num_classes=10, width_mult=0.35), 40, both),
    "shufflenet": (lambda: models.shufflenet_v2_x0_5(num_classes=10), 40, one),
    "vit": (vit, 32, one),
    "swin": (swin, 32, one),
}

folder = sys.argv[1]
with open(f"{folder}/inputs.txt", "w") as inputs:
    for name, (make, size, kinds) in zoo.items():
        torch.manual_seed(1)
        net = make().double().train()
        for part in net.modules():
            if isinstance(part, (torch.nn.Dropout, torch.nn.Dropout2d)):
                part.p = 0.0
            if isinstance(part, torch.nn.MultiheadAttention):
                part.dropout = 0.0
        for kind in kinds:
            example = torch.randn(4, 3, size, size, dtype=torch.float64)
            script = torch.jit.script(net) if kind == "scripted" else torch.jit.trace(net, example, check_trace=False)
            script.save(f"{folder}/{name}.{kind}.pt")
            inputs.write(f"{name}.{kind} {size}\n")
