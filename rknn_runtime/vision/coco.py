"""The 80 classes of COCO's detection task: names, and the numbers that its files give them."""

from __future__ import annotations

__all__ = ["COCO_IDS", "COCO_NAMES"]

_NAMES = (
    "person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,fire hydrant,"
    "stop sign,parking meter,bench,bird,cat,dog,horse,sheep,cow,elephant,bear,zebra,giraffe,"
    "backpack,umbrella,handbag,tie,suitcase,frisbee,skis,snowboard,sports ball,kite,"
    "baseball bat,baseball glove,skateboard,surfboard,tennis racket,bottle,wine glass,cup,fork,"
    "knife,spoon,bowl,banana,apple,sandwich,orange,broccoli,carrot,hot dog,pizza,donut,cake,"
    "chair,couch,potted plant,bed,dining table,toilet,tv,laptop,mouse,remote,keyboard,"
    "cell phone,microwave,oven,toaster,sink,refrigerator,book,clock,vase,scissors,teddy bear,"
    "hair drier,toothbrush"
)
#: In the order of the classes of models that were trained on it.
COCO_NAMES: tuple[str, ...] = tuple(_NAMES.split(","))
#: ``category_id`` of each in COCO's annotations: 1 to 90, of which ten were never used.
COCO_IDS: tuple[int, ...] = tuple(
    number for number in range(1, 91) if number not in (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)
)
