"""Writes models of torchvision and transformers as TorchScript files, in float64, without dropout, of few layers.

export_zoo.py DIR [REGEX]: those whose file's name matches: DIR/NAME.{scripted,traced}.pt, and DIR/inputs.txt, a line each: file, "floats" or the number
of tokens, shape of one row. What Python itself cannot write is not there; DIR/unwritten.txt says why.
"""
import functools
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
import transformers
from torchvision.models.convnext import CNBlockConfig
from torchvision.models.efficientnet import FusedMBConvConfig, MBConvConfig
from torchvision.models._utils import IntermediateLayerGetter
from torchvision.models.video.mvit import MSBlockConfig

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
models = torchvision.models
image, video = (3, 40, 40), (3, 8, 32, 32)
tokens = 40


class Output(torch.nn.Module):
    """One output of a model that gives a dictionary."""

    def __init__(self, net, key):
        super().__init__()
        self.net, self.key = net, key

    def forward(self, x):
        return self.net(x)[self.key]


class Causal(torch.nn.Module):
    """A language model with a mask of the caller's: the library's own cannot be traced."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        mask = torch.full((x.shape[1], x.shape[1]), -1e9, dtype=torch.float64).triu(1).expand(x.shape[0], 1, -1, -1)
        return self.net(x, attention_mask=mask)["logits"]


def vgg(make):
    net = make(num_classes=10)
    net.classifier = torch.nn.Sequential(torch.nn.Linear(512 * 49, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    return net


def alexnet():
    net = models.alexnet(num_classes=10)
    net.classifier = torch.nn.Sequential(torch.nn.Linear(256 * 36, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    return net


def efficientnet():
    blocks = [MBConvConfig(1, 3, 1, 8, 8, 1, 1.0, 1.0), MBConvConfig(4, 3, 2, 8, 16, 2, 1.0, 1.0), MBConvConfig(4, 5, 2, 16, 24, 1, 1.0, 1.0)]
    return models.EfficientNet(blocks, dropout=0.0, stochastic_depth_prob=0.0, num_classes=10, last_channel=64)


def efficientnet_v2():
    blocks = [FusedMBConvConfig(1, 3, 1, 8, 8, 1), FusedMBConvConfig(4, 3, 2, 8, 16, 2), MBConvConfig(4, 3, 2, 16, 24, 1, 1.0, 1.0)]
    return models.EfficientNet(blocks, dropout=0.0, stochastic_depth_prob=0.0, num_classes=10, last_channel=64)


def convnext():
    return models.ConvNeXt([CNBlockConfig(16, 32, 2), CNBlockConfig(32, None, 2)], stochastic_depth_prob=0.0, num_classes=10)


def swin(version):
    of = {"block": models.swin_transformer.SwinTransformerBlockV2, "downsample_layer": models.swin_transformer.PatchMergingV2} if version == 2 else {}
    return models.SwinTransformer(patch_size=[4, 4], embed_dim=16, depths=[2, 2], num_heads=[2, 2], window_size=[4, 4], stochastic_depth_prob=0.0,
                                  num_classes=10, **of)


def vit():
    return models.VisionTransformer(image_size=40, patch_size=8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64, num_classes=10)


def densenet():
    return models.DenseNet(growth_rate=8, block_config=(2, 3, 2), num_init_features=16, num_classes=10)


def maxvit():
    return models.MaxVit(input_size=(32, 32), stem_channels=16, partition_size=4, block_channels=[16, 32], block_layers=[1, 1], head_dim=8,
                         stochastic_depth_prob=0.0, num_classes=10)


def mvit():
    blocks = [MSBlockConfig(1, 16, 16, [3, 3, 3], [3, 3, 3], [1, 1, 1], [1, 2, 2]), MSBlockConfig(2, 16, 32, [3, 3, 3], [3, 3, 3], [1, 2, 2], [1, 1, 1])]
    return models.video.MViT((32, 32), 8, blocks, residual_pool=False, residual_with_cls_embed=True, rel_pos_embed=False, proj_after_attn=False,
                             stochastic_depth_prob=0.0, num_classes=10)


def swin3d():
    return models.video.SwinTransformer3d(patch_size=[2, 4, 4], embed_dim=16, depths=[2, 2], num_heads=[2, 2], window_size=[2, 4, 4],
                                          stochastic_depth_prob=0.0, num_classes=10)


def regnet(of):
    return models.RegNet(models.regnet.BlockParams.from_init_params(depth=6, w_0=8, w_a=8.0, w_m=2.0, group_width=8, se_ratio=of), num_classes=10)


def resnet(block, layers=(1, 1, 1, 1), **options):
    return models.ResNet(getattr(models.resnet, block), list(layers), num_classes=10, **options)


def fcn():
    backbone = IntermediateLayerGetter(resnet("Bottleneck", replace_stride_with_dilation=[False, True, True]), {"layer4": "out"})
    return Output(models.segmentation.FCN(backbone, models.segmentation.fcn.FCNHead(2048, 5)), "out")


def video_resnet(convolutions, stem):
    of = models.video.resnet
    return of.VideoResNet(of.BasicBlock, [getattr(of, each) for each in convolutions], [1, 1, 1, 1], getattr(of, stem), num_classes=10)


vision = {
    "alexnet": (alexnet, (3, 64, 64)),
    "convnext": (convnext, image),
    "deeplabv3_mobilenet": (lambda: Output(models.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5), "out"),
                            image),
    "densenet": (densenet, image),
    "efficientnet": (efficientnet, image),
    "efficientnet_v2": (efficientnet_v2, image),
    "fcn": (fcn, image),
    "googlenet": (lambda: models.googlenet(num_classes=10, aux_logits=False, init_weights=False), image),
    "inception_v3": (lambda: models.inception_v3(num_classes=10, aux_logits=False, init_weights=False), (3, 75, 75)),
    "lraspp": (lambda: Output(models.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5), "out"), image),
    "maxvit": (maxvit, (3, 32, 32)),
    "mnasnet": (lambda: models.MNASNet(0.5, num_classes=10, dropout=0.0), image),
    "mobilenet_v2": (lambda: models.mobilenet_v2(num_classes=10, width_mult=0.35), image),
    "mobilenet_v3": (lambda: models.mobilenet_v3_small(num_classes=10), image),
    "regnet_x": (lambda: regnet(None), image),
    "regnet_y": (lambda: regnet(0.25), image),
    "resnet_basic": (lambda: resnet("BasicBlock"), image),
    "resnet_bottleneck": (lambda: resnet("Bottleneck"), image),
    "resnext": (lambda: resnet("Bottleneck", groups=4, width_per_group=8), image),
    "wide_resnet": (lambda: resnet("Bottleneck", width_per_group=128), image),
    "shufflenet": (lambda: models.shufflenet_v2_x0_5(num_classes=10), image),
    "squeezenet1_0": (lambda: models.squeezenet1_0(num_classes=10, dropout=0.0), image),
    "squeezenet1_1": (lambda: models.squeezenet1_1(num_classes=10, dropout=0.0), image),
    "swin": (lambda: swin(1), image),
    "swin_v2": (lambda: swin(2), image),
    "vgg11": (lambda: vgg(models.vgg11), (3, 32, 32)),
    "vgg11_bn": (lambda: vgg(models.vgg11_bn), (3, 32, 32)),
    "vit": (vit, image),
    "mc3": (lambda: video_resnet(["Conv3DSimple"] + ["Conv3DNoTemporal"] * 3, "BasicStem"), video),
    "mvit": (mvit, video),
    "r2plus1d": (lambda: video_resnet(["Conv2Plus1D"] * 4, "R2Plus1dStem"), video),
    "r3d": (lambda: video_resnet(["Conv3DSimple"] * 4, "BasicStem"), video),
    "swin3d": (swin3d, video),
}

# By the names that configurations use for one thing.
sizes = {("hidden_size", "d_model", "n_embd", "dim", "word_embed_proj_dim", "embedding_size", "true_hidden_size", "intra_bottleneck_size", "n_embed"): 32,
         ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers", "decoder_layers", "num_decoder_layers"): 2,
         ("num_attention_heads", "n_head", "num_heads", "n_heads", "encoder_attention_heads", "decoder_attention_heads"): 4,
         ("num_key_value_heads",): 2,
         ("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "ffn_dim", "d_ff", "hidden_dim", "d_inner", "n_inner"): 64,
         ("head_dim", "d_kv", "d_head"): 8,
         ("rotary_dim",): 4,
         ("image_size",): 32,
         ("patch_size",): 8,
         ("bottleneck_size",): 32,
         ("vocab_size",): tokens}
language = ("AutoModelForSequenceClassification", "albert bert camembert convbert deberta deberta-v2 distilbert electra ernie fnet ibert layoutlm "
            "megatron-bert mobilebert mpnet nystromformer rembert roberta roformer squeezebert xlm-roberta xlnet")
causal = ("AutoModelForCausalLM", "codegen gemma gpt2 gpt_neox gptj llama mistral mixtral olmo phi qwen2 stablelm")
pictures = ("AutoModelForImageClassification", "beit dinov2 focalnet poolformer regnet resnet segformer van vit")


def of_configuration(family, name):
    config = transformers.AutoConfig.for_model(name)
    options = {key: value for keys, value in sizes.items() for key in keys if hasattr(config, key) and isinstance(getattr(config, key), int)}
    options |= {key: 0.0 for key in config.to_dict() if re.search("drop", key) and isinstance(getattr(config, key), (int, float))}
    options |= {"use_cache": False, "attn_implementation": "eager"}
    if family == "AutoModelForSequenceClassification":
        options["pad_token_id"] = 0
    net = getattr(transformers, family).from_config(transformers.AutoConfig.for_model(name, **options))
    return Causal(net) if family == causal[0] else Output(net, "logits")


entries = [(name, "floats", shape, make, kind) for name, (make, shape) in vision.items() for kind in ("scripted", "traced")]
for family, names in (language, causal, pictures):
    shape, values = ((3, 32, 32), "floats") if family == pictures[0] else ((12,), str(tokens))
    entries += [(f"{name}_of_transformers", values, shape, functools.partial(of_configuration, family, name), "traced") for name in names.split()]

folder, wanted = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
with open(f"{folder}/inputs.txt", "w") as inputs, open(f"{folder}/unwritten.txt", "w") as unwritten:
    for name, values, shape, make, kind in entries:
        if not re.search(wanted, f"{name}.{kind}"):
            continue
        try:
            torch.manual_seed(1)
            net = make().double().train()
            for part in net.modules():
                if "Drop" in type(part).__name__ and hasattr(part, "p"):
                    part.p = 0.0
                if isinstance(part, torch.nn.MultiheadAttention):
                    part.dropout = 0.0
            example = torch.randn(4, *shape, dtype=torch.float64) if values == "floats" else torch.randint(1, tokens, (4, *shape))
            script = torch.jit.script(net) if kind == "scripted" else torch.jit.trace(net, example, check_trace=False)
            script.save(f"{folder}/{name}.{kind}.pt")
            inputs.write(f"{name}.{kind} {values} {' '.join(map(str, shape))}\n")
        except Exception as error:
            unwritten.write(f"{name}.{kind}: {str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__}\n")
